"""The command line: options, progress, tables, reports. Nothing below it knows an option."""
