package auth

// CacheSizes says how many answers are remembered.
func CacheSizes(a *Authenticator) (known, unknown int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.known.answers), len(a.unknown.answers)
}
