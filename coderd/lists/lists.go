// Package lists makes slices of other slices.
package lists

// Of returns what of makes of each element, in the same order. It is never nil, so that it is an array in JSON.
func Of[E, T any](elements []E, of func(E) T) []T {
	list := make([]T, len(elements))
	for i, element := range elements {
		list[i] = of(element)
	}
	return list
}
