package templates_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/templates"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// golden compares with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestBadFiles has every way in which a file can be wrong on its own, and what is said about it.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(input)
			require.NoError(t, err)
			_, err = templates.Parse(name+".yaml", string(source))
			var problems *templates.Problems
			require.ErrorAs(t, err, &problems)
			golden(t, "bad/"+name+".golden", problems.Error()+"\n")
		})
	}
}

// TestHostileFiles has what is too much for a file under testdata.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ source, want string }{
		"too big":       {strings.Repeat("# padding\n", 200_000), "at most 1048576 are read"},
		"not UTF-8":     {"templates:\n- name: \xff\xfe", "f:2:9: the file is not UTF-8"},
		"NUL":           {"templates:\n- name: a\x00", "f:2:10: the file has a NUL byte"},
		"deep lists":    {strings.Repeat("[", 56<<10), "f:1:33: nested too deeply"},
		"deep mappings": {strings.Repeat("{a: ", 28<<10), "nested too deeply"},
		"deep dashes":   {strings.Repeat("- ", 28<<10), "nested too deeply"},
		"deep indent": {func() string {
			var b strings.Builder
			for i := range 300 {
				fmt.Fprintf(&b, "%*sa:\n", i, "")
			}
			return b.String()
		}(), "nested too deeply"},
		"deep spec": {
			"templates:\n- name: a\n  provider: p\n  spec:\n    a: " + strings.Repeat("[", 32) + strings.Repeat("]", 32),
			"nested too deeply: at most 32 levels",
		},
		"anchor bomb": {"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "anchors are not supported"},
		"questions":   {strings.Repeat("? ", 28<<10), `"?" keys are not supported`},
		"NUL escape":  {"templates:\n- name: a\n  provider: p\n  description: \"\\0\"\n  spec: {a: \"\\0\"}", "NUL character"},
		"big flat": {func() string {
			var b strings.Builder
			for i := range 40_000 {
				fmt.Fprintf(&b, "key-%d: value\n", i)
			}
			return b.String()
		}(), "f:1001:9: too many settings in one mapping"},
		"wide flow": {"a: {" + strings.Repeat("k: v, ", 1001) + "}", "too many settings in one mapping"},
		"flood": {func() string {
			var b strings.Builder
			for i := range 1_000 {
				fmt.Fprintf(&b, "key-%d: value\n", i)
			}
			return b.String()
		}(), "there may be more: mend these first"},
		"relative root": {"providers: [{name: p, kind: local, config: {root: data}}]", `config.root "data" is relative`},
		"infinite":      {"templates:\n- name: a\n  provider: p\n  spec: {a: .inf}", "not a value that JSON has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := templates.Parse("f", test.source)
			var problems *templates.Problems
			require.ErrorAs(t, err, &problems)
			require.Contains(t, problems.Error(), test.want)
			require.Less(t, len(problems.Error()), 20_000, "an answer, not a flood")
		})
	}
}

func TestGoodFile(t *testing.T) {
	t.Parallel()
	doc, err := templates.Parse("f.yaml", `
# A comment.
providers:
  - {name: local, kind: local}
  - name: lab
    kind: sim
    config: {b: 1, a: [1.50, 2]}
    maximum: 10
    creates_in_flight: 2
    chunk: 5
templates:
  - name: go
    description: |
      two
      lines
    provider: local
    keep_outdated: true
    boot_timeout: 90s
    spec:
      command: [sh, -c, "sleep 1"]
    presets:
      - name: small
      - name: big
        parameters: {cpu: 8, memory: "16", ratio: 1.10, spot: true, "no": no}
        prebuilds: {instances: 3, ttl: 8h, priority: -1}
`)
	require.NoError(t, err)
	require.Len(t, doc.Providers, 2)
	require.EqualValues(t, 16, doc.Providers[0].CreatesInFlight)
	require.EqualValues(t, 1000, doc.Providers[0].Chunk)
	require.JSONEq(t, `{"a":[1.5,2],"b":1}`, string(doc.Providers[1].Config))
	require.EqualValues(t, 10, doc.Providers[1].Maximum)
	require.Len(t, doc.Templates, 1)
	template := doc.Templates[0]
	require.Equal(t, "two\nlines\n", template.Description)
	require.Equal(t, 90*time.Second, template.BootTimeout)
	require.True(t, template.KeepOutdated)
	require.JSONEq(t, `{"command":["sh","-c","sleep 1"]}`, string(template.Spec))
	require.Nil(t, template.Presets[0].Prebuilds)
	require.Equal(t, map[string]string{"cpu": "8", "memory": "16", "ratio": "1.10", "spot": "true", "no": "no"},
		template.Presets[1].Parameters)
	require.Equal(t, templates.Prebuilds{Instances: 3, TTL: 8 * time.Hour, TTLJitter: 10, Priority: -1}, *template.Presets[1].Prebuilds)
}

// TestBigFile: a thousand templates are no reason to refuse a file, nor to think about it for long.
func TestBigFile(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("templates:\n")
	for i := range 1_000 {
		fmt.Fprintf(&b, `
- name: template-%d
  provider: local
  spec: {command: [sleep, infinity], environment: {A: "1", B: "2"}}
  presets:
  - name: default
    parameters: {cpu: 4}
    prebuilds: {instances: 3, ttl: 8h}
`, i)
	}
	doc, err := templates.Parse("f", b.String())
	require.NoError(t, err)
	require.Len(t, doc.Templates, 1_000)
}

// FuzzParse: whatever the input, a document or problems with places in it, never a panic.
func FuzzParse(f *testing.F) {
	inputs, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(f, err)
	for _, input := range inputs {
		source, err := os.ReadFile(input)
		require.NoError(f, err)
		f.Add(string(source))
	}
	f.Fuzz(func(t *testing.T, source string) {
		_, err := templates.Parse("f", source)
		var problems *templates.Problems
		if err != nil && (!errors.As(err, &problems) || len(problems.List) == 0) {
			t.Fatalf("an error without problems: %v", err)
		}
	})
}
