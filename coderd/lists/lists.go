// Package lists makes slices and maps of slices.
package lists

// Of returns what of makes of each element, in the same order. It is never nil, so that it is an array in JSON.
func Of[E, T any](elements []E, of func(E) T) []T {
	list := make([]T, len(elements))
	for i, element := range elements {
		list[i] = of(element)
	}
	return list
}

// Only returns the elements that keep is true for, in the same order; nil if there are none.
func Only[E any](elements []E, keep func(E) bool) []E {
	var kept []E
	for _, element := range elements {
		if keep(element) {
			kept = append(kept, element)
		}
	}
	return kept
}

// Keyed returns a map with an entry for each element. Of elements with the same key, the last one stays.
func Keyed[E any, K comparable, V any](elements []E, entry func(E) (K, V)) map[K]V {
	keyed := make(map[K]V, len(elements))
	for _, element := range elements {
		key, value := entry(element)
		keyed[key] = value
	}
	return keyed
}
