package tree

// Forget has this process look through each directory again. What a test removes may leave its number to the directory of another.
func Forget() {
	swept.mu.Lock()
	defer swept.mu.Unlock()
	clear(swept.all)
}
