// Package providertest runs the contract of package provider as tests: every provider runs it, so that whatever drives
// providers can rely on it for each of them. The cases are those of package conformance.
package providertest

import (
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/provider/conformance"
)

// Harness is a provider to be tested, with nothing of the test's own in it. Where Foreign is nil, it is Provider.
type Harness = conformance.Subject

// Run runs all cases that the provider offers; each has a harness of its own.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			h := newHarness(t)
			if h.Foreign == nil {
				h.Foreign = h.Provider
			}
			if !c.Offered(h.Provider) {
				return // it is about something optional
			}
			if err := c.Run(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}
