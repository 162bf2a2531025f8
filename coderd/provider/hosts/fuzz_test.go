package hosts

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

// FuzzSpec: whatever a template says, it is either refused with places in it, or means the same each time.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"prepare":"x","reset":"true","check":"x","check_timeout":"5s","environment":{"A":"1","PREWARM_X":"2"}}`), "size", "x y")
	f.Add([]byte(`{"reset":" ","prepare_timeout":"0s"}`), "size", "x y")
	f.Add([]byte(`null`), "size", "x y")
	f.Add([]byte(`{"environment":null}`), "size", "x y")
	f.Fuzz(func(t *testing.T, raw []byte, name, value string) {
		if !json.Valid(raw) { // what is stored is JSON
			return
		}
		parameters := map[string]string{name: value, "region-a": "b"}
		s, problems := parseSpec(raw, parameters)
		again, _ := parseSpec(raw, parameters)
		assert.Equal(t, s, again)
		for _, p := range problems {
			assert.NotEmpty(t, p.Message)
		}
	})
}
