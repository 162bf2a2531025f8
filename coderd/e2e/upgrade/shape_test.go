package upgrade_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shape says which fields a JSON text has: paths with the kind of what is there, and whether any of it is more than a zero
// value. The elements of a list count as one.
type shape map[string]bool

func shapeOf(text []byte) (shape, error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("%w: %.500s", err, text)
	}
	s := shape{}
	s.add("", value)
	return s, nil
}

func (s shape) add(path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		s[path+" object"] = true
		for key, inner := range value {
			s.add(path+"."+key, inner)
		}
	case []any:
		s[path+" list"] = true
		for _, inner := range value {
			s.add(path+"[]", inner)
		}
	case nil:
		s[path+" null"] = true
	default:
		s[fmt.Sprintf("%s %T", path, value)] = true
		if value != "" && value != 0.0 && value != false {
			s[path+" is set"] = true
		}
	}
}

// missing is what old has and s has not.
func (s shape) missing(old shape) (paths []string) {
	for _, path := range slices.Sorted(maps.Keys(old)) {
		if !s[path] {
			paths = append(paths, path)
		}
	}
	return paths
}

// sameFields asks both servers until nothing of what the old one answers is missing in the new one's answer: what is so
// changes between two questions, fields do not.
func sameFields(t testing.TB, what string, old, renewed func() []byte) {
	t.Helper()
	var missing []string
	if !assert.Eventually(t, func() bool {
		before, err := shapeOf(old())
		if err != nil {
			missing = []string{err.Error()}
			return false
		}
		after, err := shapeOf(renewed())
		if err != nil {
			missing = []string{err.Error()}
			return false
		}
		missing = after.missing(before)
		return len(missing) == 0
	}, fieldPatience, poll) {
		t.Errorf("%s: the new server leaves out fields that the old one has: %q", what, missing)
	}
}

func TestShape(t *testing.T) {
	t.Parallel()
	old, err := shapeOf([]byte(`{"a": [{"b": 1}, {"c": ""}], "d": null}`))
	require.NoError(t, err)
	for text, missing := range map[string][]string{
		`{"a": [{"b": 2, "c": "x", "new": 1}], "d": null}`: nil,
		`{"a": [{"c": "x"}], "d": null}`:                   {".a[].b float64", ".a[].b is set"},
		`{"a": [{"b": 0, "c": "x"}], "d": null}`:           {".a[].b is set"},
		`{"a": [{"b": "1", "c": ""}], "d": null}`:          {".a[].b float64"},
	} {
		s, err := shapeOf([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, missing, s.missing(old), text)
	}
}
