package printable_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/printable"
)

func TestHeadline(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"":                         "",
		"no disk":                  "no disk",
		" no disk\n":               "no disk",
		"404\n\n":                  "404",
		"docker: no such image: x": "docker: no such image: x",
		"setup ended with exit status 128; its last output:\nCloning into 'x'...\nfatal: repository not found\n\n"://
		"fatal: repository not found (setup ended with exit status 128)",
		"setup ended with exit status 128; its last output:\n": "setup ended with exit status 128",
		"start: it ended; its last output:\n\x1b[31mError: no key\x1b[0m\n}\n---\n"://
		"Error: no key (start: it ended)",
		"pull debian:12:\n10%\r20%\rtoomanyrequests: slow down": "toomanyrequests: slow down (pull debian:12)",
		"spec is wrong:\n  image is missing":                    "image is missing (spec is wrong)",
	} {
		assert.Equal(t, want, printable.Headline(fault), "%q", fault)
	}
	long := printable.Headline(strings.Repeat("a", 1000) + "\n" + strings.Repeat("é", 1000))
	assert.Equal(t, strings.Repeat("é", 299)+"… ("+strings.Repeat("a", 119)+"…)", long)
}

// What is kept of a long fault has both what failed and the end of its output.
func TestBothEnds(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short\nfault", printable.BothEnds("short\nfault", 20))
	kept := printable.BothEnds("setup failed:\n"+strings.Repeat("é", 5000)+"\nfatal: no such host", 2000)
	require.Len(t, []rune(kept), 2000)
	require.True(t, strings.HasPrefix(kept, "setup failed:\n…\n"), kept[:40])
	require.Equal(t, "fatal: no such host (setup failed)", printable.Headline(kept))
}
