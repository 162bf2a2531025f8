package local_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
)

func BenchmarkCreateDelete(b *testing.B) {
	p, err := local.New(local.Options{Root: b.TempDir() + "/root"})
	require.NoError(b, err)
	for n := range b.N {
		name := fmt.Sprintf("n-%d", n)
		if _, err := p.Create(b.Context(), request(name, `{"command": ["sleep", "1000"], "port": true}`)); err != nil {
			b.Fatal(err)
		}
		if err := p.Delete(b.Context(), provider.Ref{Name: name}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	p, err := local.New(local.Options{Root: b.TempDir() + "/root"})
	require.NoError(b, err)
	_, err = p.Create(b.Context(), request("one", `{"command": ["sleep", "1000"]}`))
	require.NoError(b, err)
	defer p.Delete(b.Context(), provider.Ref{Name: "one"})
	for b.Loop() {
		if _, err := p.Get(b.Context(), provider.Ref{Name: "one"}); err != nil {
			b.Fatal(err)
		}
	}
}
