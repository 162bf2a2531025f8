package templates_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
)

// uploaded are archives by their organizations.
type uploaded map[uuid.UUID]string

func (u uploaded) UseArchive(_ context.Context, organizationID uuid.UUID, digest string) (bool, error) {
	return u[organizationID] == digest, nil
}

// archiving is a fake whose specs name an archive.
type archiving struct{ fake }

func (archiving) ArchiveOf(spec json.RawMessage) string {
	var named struct{ Module string }
	_ = json.Unmarshal(spec, &named)
	return named.Module
}

// A spec names only what its organization has, and says where it does not. Another archive is another version, the same is none.
func TestArchives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(kind string, config json.RawMessage) (provider.Provider, error) { return archiving{}, nil }
	first, second, theirs := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64), "sha256:"+strings.Repeat("3", 64)
	has := uploaded{b.by.OrganizationID: first, uuid.New(): theirs}
	b.Archives = has
	file := func(digest string) string {
		return "providers: [{name: here, kind: fake}]\ntemplates:\n  - name: a\n    provider: here\n    spec:\n      command: [x]\n      module: " +
			digest + "\n"
	}
	require.NotEmpty(t, b.apply(t, file(first)).Changes)
	require.Empty(t, b.apply(t, file(first)).Changes)
	before := b.dump(t)
	for _, digest := range []string{second, theirs} {
		for _, dryRun := range []bool{true, false} {
			_, err := b.try(file(digest), dryRun)
			var problems *templates.Problems
			require.ErrorAs(t, err, &problems)
			require.EqualError(t, err, "f.yaml:7:7: spec.module: "+digest+" is not stored: name the directory in its place, and apply the file "+
				"with prewarm apply, which uploads it")
			require.Equal(t, before, b.dump(t))
		}
	}
	has[b.by.OrganizationID] = second
	require.Equal(t, "create version a@2\n    active version: 1 -> 2\n    spec.module: \""+first[:59]+"… -> \""+second[:59]+"…\n", told(b.apply(t, file(second)).Changes))

	exported, err := b.Export(t.Context(), b.by, "a")
	require.NoError(t, err)
	require.Contains(t, exported, "module: "+second)
	require.Empty(t, b.apply(t, exported).Changes)
}
