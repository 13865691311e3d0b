"""What a caller passes to a net and gets back: names, shapes, arrays, whole numbers, state."""
