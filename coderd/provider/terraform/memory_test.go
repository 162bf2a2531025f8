package terraform_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
)

// hungry is a module that takes so many MiB of memory while it is applied.
const hungry = `
variable "mib" { type = string }
resource "terraform_data" "hungry" {
  provisioner "local-exec" { command = "head -c ${var.mib}M /dev/zero | tail -c ${var.mib}M >/dev/null" }
}`

// What a run may use is bounded: the kernel ends what takes more, and the error says so. The run after it is as any other, and no
// control group is left.
func TestMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if w.Unlimited != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(w.Unlimited)
		}
		t.Skip(w.Unlimited)
	}
	o := w.Options
	o.Memory = terraform.Memory{Run: 300 << 20}
	var err error
	w.Runner, err = terraform.New(t.Context(), o)
	require.NoError(t, err)
	for _, c := range []struct{ mib, says string }{
		{"900", "it used more memory than the 300MiB of memory.run in the provider's configuration"},
		{"20", ""},
	} {
		var said strings.Builder
		run := w.open(hungry, map[string]string{"mib": c.mib})
		require.NoError(t, run.Init(t.Context(), &said))
		err := apply(t.Context(), run, &said)
		if c.says == "" {
			require.NoError(t, err, said.String())
		} else {
			require.ErrorContains(t, err, c.says, said.String())
			require.ErrorContains(t, err, "local-exec", "with what Terraform says of it")
		}
		require.NoError(t, run.Close())
	}
	left, err := filepath.Glob("/sys/fs/cgroup/*/prewarm-terraform/*")
	require.NoError(t, err)
	more, err := filepath.Glob("/sys/fs/cgroup/prewarm-terraform/*")
	require.NoError(t, err)
	for _, dir := range append(left, more...) {
		_, err := os.Stat(filepath.Join(w.root, filepath.Base(dir)))
		require.Error(t, err, "the group %s of a run that has ended", dir)
	}

	o.Memory = terraform.Memory{Run: 2 << 30, Total: 1 << 30}
	_, err = terraform.New(t.Context(), o)
	require.ErrorContains(t, err, "memory.total: 1GiB is less than a run may use, 2GiB")
}

// As many runs are under way at a time as there is memory for.
func TestMemory_total(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	o := c.Options
	o.Memory = terraform.Memory{Run: 1 << 30, Total: 2<<30 + 5}
	runner, err := terraform.New(t.Context(), o)
	require.NoError(t, err)
	c.Runner = runner
	c.Provider = c.world.provider(c.installation)
	var creates errgroup.Group
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		creates.Go(func() error {
			req := c.request(name, `resource "terraform_data" "counts" {
				provisioner "local-exec" { command = "cd `+c.dir+` && mkdir on-`+name+` && ls -d on-* | wc -l > count-`+name+`; sleep 0.3; rmdir on-`+name+`" }
			}`, false)
			_, err := c.Create(t.Context(), req)
			return err
		})
	}
	require.NoError(t, creates.Wait())
	counts, err := filepath.Glob(filepath.Join(c.dir, "count-*"))
	require.NoError(t, err)
	require.Len(t, counts, 5)
	for _, name := range counts {
		n, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Contains(t, []string{"1\n", "2\n"}, string(n))
	}
}
