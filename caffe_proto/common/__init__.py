"""What every room uses and no room owns: errors, words, options, files. It knows nothing of nets."""
