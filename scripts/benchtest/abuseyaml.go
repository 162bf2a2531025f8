package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// heavyFiles are applied by a template-admin, one by one and then without end by eight clients, as dry runs. Of all kinds of
// files that were tried, these cost the server most; a little more of anything in them, and it refuses them unread.
func heavyFiles(ctx context.Context, t *target) {
	const clients = 8
	admin := t.user(ctx, "template-admin")
	files := []struct{ name, source, problem string }{
		{"mappings", mappings(), "is not known here"}, {"items", items(), "must be a mapping"}, {"text", text(), "is not known here"},
	}
	t.forgetPeak()
	before, _ := t.resident()
	for _, file := range files {
		var took []time.Duration
		for range t.bench.rounds {
			began := time.Now()
			_, err := admin.Apply(ctx, sdk.ApplyRequest{Document: file.source, DryRun: true})
			if err == nil || !strings.Contains(err.Error(), file.problem) {
				fail("file %s was not read to its end: %w", file.name, err)
			}
			took = append(took, time.Since(began))
			pause(ctx, 4*took[len(took)-1]) // until the server reads another one
		}
		line(t.name+"."+file.name, millis(took, 0.5), "ms", 0, "")
	}
	_, peak := t.resident()
	line(t.name+".one-by-one.memory.peak", float64(peak)/(1<<20), "MiB", float64(before)/(1<<20), "before")
	t.beside(ctx, func(ctx context.Context, all *sync.WaitGroup) func() {
		for range clients {
			all.Go(func() {
				for ctx.Err() == nil {
					for _, file := range files {
						_, _ = admin.Apply(ctx, sdk.ApplyRequest{Document: file.source, DryRun: true})
					}
				}
			})
		}
		return func() {}
	})
}

const spec = "templates:\n- name: heavy\n  provider: sim\n  spec:\n    a:\n"

// mappings are as many mappings with as many settings as are read.
func mappings() string {
	var b strings.Builder
	b.WriteString(spec)
	for i := range 440 {
		fmt.Fprintf(&b, "      m%d:\n", i)
		for k := range 64 {
			fmt.Fprintf(&b, "        k%d: 1\n", k)
		}
	}
	return b.String()
}

// items are as many as are read.
func items() string { return "templates:\n" + strings.Repeat("- \n", 28_000) }

// text is one as long as can be, with as many blank lines after it as are read.
func text() string {
	return spec + "      b: |\n        " + strings.Repeat("x", 1<<20-500) + strings.Repeat("\n", 51)
}
