package alerts

// Forget makes the next Read read anew, but for the claimed.
func (r *Reader) Forget() { r.last = nil }
