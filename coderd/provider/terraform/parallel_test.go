package terraform_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/provider/terraform/codertest"
)

// Twenty workspaces are made at once, each by a Terraform and a plugin of its own. What they take together is in the log of the test.
func TestParallel(t *testing.T) {
	t.Parallel()
	const n = 20
	c := newCloud(t)
	c.Mirror = codertest.Mirror(t)
	var most, atOnce atomic.Uint64
	made := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-made:
				return
			case <-tick.C:
			}
			bytes, processes := c.memory()
			most.Store(max(most.Load(), bytes))
			atOnce.Store(max(atOnce.Load(), processes))
		}
	})
	var creates errgroup.Group
	began := time.Now()
	for i := range n {
		creates.Go(func() error {
			req := c.request(fmt.Sprintf("w-%d", i), `
				terraform {
				  required_providers { coder = { source = "coder/coder" } }
				}
				data "coder_workspace" "me" {}
				resource "terraform_data" "machine" { input = data.coder_workspace.me.name }`, false)
			req.Template = "many"
			_, err := c.Create(t.Context(), req)
			return err
		})
	}
	require.NoError(t, creates.Wait())
	took := time.Since(began)
	close(made)
	sampling.Wait()
	all, err := c.List(t.Context(), c.installation)
	require.NoError(t, err)
	require.Len(t, all, n)
	require.NotZero(t, most.Load())
	t.Logf("%d creates at once took %s and at most %d MiB in %d processes", n, took.Round(time.Second), most.Load()>>20, atOnce.Load())
}

// memory is what all processes of runs have, shared pages divided among them, in bytes, and how many there are.
func (c *cloud) memory() (bytes, processes uint64) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, 0
	}
	for _, p := range all {
		if cwd, err := p.Cwd(); err != nil || !strings.HasPrefix(cwd, c.root+"/") {
			continue
		}
		if maps, err := p.ProcSMapsRollup(); err == nil {
			bytes, processes = bytes+maps.Pss, processes+1
		}
	}
	return bytes, processes
}
