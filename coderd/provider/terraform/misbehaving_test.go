package terraform_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform/codertest"
)

// Whatever a plugin does, its run ends, and leaves no process, no directory and no lock. Another workspace is made as ever.
func TestMisbehaving(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.Mirror = codertest.Misbehaving(t)
	root := os.Geteuid() == 0 // who mounts what can be filled
	if root {
		require.NoError(t, syscall.Mount("tmpfs", c.root, "tmpfs", 0, "size=64m,mode=711"))
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(c.root, syscall.MNT_DETACH)) })
	}
	for _, of := range []struct {
		does, says string
		unsure     bool // it may have made something
	}{
		{does: "crash", says: "the apply was cut off: ", unsure: true},
		{does: "hang", says: context.Canceled.Error(), unsure: true},
		{does: "tell", says: "it has:"},
		{does: "fill", says: "no space left on device"},
		{does: "ask", says: `asked, and answered with "", <nil>`},
		{does: "nothing"},
	} {
		if of.does == "fill" && !root {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		req := c.request(of.does, fmt.Sprintf(`
			terraform {
			  required_providers { misbehaving = { source = "prewarm/misbehaving" } }
			}
			resource "misbehaving_thing" "of" { does = %q }`, of.does), false)
		var hanging sync.WaitGroup
		if of.does == "hang" {
			hanging.Go(func() {
				defer cancel()
				assert.Eventually(t, func() bool {
					said, _, err := c.states.Output(ctx, req.Tags.WorkspaceID, 0)
					return err == nil && strings.Contains(said, "misbehaving_thing.of: Creating...")
				}, eventually, poll, "it is made")
			})
		}
		made, err := c.Create(ctx, req)
		hanging.Wait()
		cancel()
		said, _, outputErr := c.states.Output(t.Context(), req.Tags.WorkspaceID, 0)
		require.NoError(t, outputErr)
		if of.says == "" {
			require.NoError(t, err, "after all that was before")
			require.Equal(t, provider.StatusRunning, made.Status)
		} else {
			require.ErrorContains(t, err, of.says, said)
		}
		if of.does == "tell" { // the token of the state is in the environment of a plugin
			require.Contains(t, said, "TF_HTTP_PASSWORD=")
			for _, text := range []string{said, err.Error()} {
				for line := range strings.Lines(text) {
					if _, password, given := strings.Cut(line, "TF_HTTP_PASSWORD="); given {
						require.NotRegexp(t, `^[A-Za-z0-9_-]{43}`, password)
					}
				}
			}
		}
		all, procErr := procfs.AllProcs()
		require.NoError(t, procErr)
		for _, p := range all {
			cwd, err := p.Cwd()
			require.False(t, err == nil && strings.HasPrefix(cwd, c.root+"/"), "%s: process %d is left", of.does, p.PID)
		}
		entries, readErr := os.ReadDir(c.root)
		require.NoError(t, readErr)
		for _, entry := range entries {
			require.False(t, strings.HasPrefix(entry.Name(), "prewarm-"), "%s: %s is left", of.does, entry.Name())
		}
		err = c.Delete(t.Context(), refTo(req))
		if of.unsure {
			require.ErrorContains(t, err, "misbehaving_thing.of", "a person has to look")
			continue
		}
		require.NoError(t, err)
		_, err = c.Get(t.Context(), refTo(req))
		require.ErrorIs(t, err, provider.ErrNotFound)
	}
}
