package database

// OrNull is a value as a column that may be NULL has it: nil where it is zero.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// OrZero is what such a pointer leads to: zero for nil.
func OrZero[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}
