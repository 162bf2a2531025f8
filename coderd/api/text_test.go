package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHostileTexts: what others see of a request on one line cannot steer what they see it in. Documents and parameters go
// to whom they are for as they are.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, r := range map[string]struct{ method, path, body, location string }{
		"token name":   {http.MethodPost, "/api/v1/tokens", `{"name":"x\u001b[2J"}`, "body.name"},
		"direction":    {http.MethodPost, "/api/v1/tokens", `{"name":"x\u202e"}`, "body.name"},
		"C1":           {http.MethodPost, "/api/v1/tokens", `{"name":"x\u009b31m"}`, "body.name"},
		"pause reason": {http.MethodPost, "/api/v1/pauses", `{"scope":"global","reason":"x\u0007"}`, "body.reason"},
		"keep reason":  {http.MethodPost, "/api/v1/workspaces/nothing/keep", `{"reason":"x\u007f"}`, "body.reason"},
		"claim key":    {http.MethodPost, "/api/v1/claims", `{"template":"a","preset":"b","key":"x\u2066"}`, "body.key"},
		"cursor":       {http.MethodGet, "/api/v1/pools?after=%1b", "", "after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.call(w.token["owner"], r.method, r.path, r.body)
			require.Equal(t, http.StatusUnprocessableEntity, a.status, a.body)
			require.Contains(t, a.body, `"location":"`+r.location+`"`)
			require.Contains(t, a.body, "leave them out")
		})
	}
	a := w.call(w.token["owner"], http.MethodPost, "/api/v1/tokens", `{"name":"Jörg's laptop 👩‍🚀"}`)
	require.Equal(t, http.StatusCreated, a.status, a.body)
}
