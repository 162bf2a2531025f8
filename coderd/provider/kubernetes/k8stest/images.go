package k8stest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Images that are there. Guest has busybox and the program that the tests of containers use, and runs as root where nothing
// else is said. Agent has a program in the place of the prewarm binary.
const (
	Guest = "prewarm.test/guest:1"
	Agent = "prewarm.test/agent:1"
	// Server is there after ImportServer: the prewarm binary itself, as deploy/Dockerfile has it.
	Server = "prewarm.test/prewarm:1"
	pause  = "prewarm.test/pause:1"
)

const packages = "github.com/prewarm-dev/prewarm/coderd/"

// image is one of a single program, which is its entrypoint.
type image struct {
	reference string
	source    string // the program's package below coderd/
	path      string
	user      string
	shell     bool // busybox is there too
}

func (c *Cluster) importImages() error {
	for _, i := range []image{
		{reference: pause, source: "provider/kubernetes/k8stest/pause", path: "pause"},
		{reference: Agent, source: "provider/kubernetes/k8stest/inner", path: "prewarm", user: "65532:65532"},
		{reference: Guest, source: "provider/docker/dockertest/guest", path: "bin/guest", shell: true},
	} {
		if err := c.importProgram(i); err != nil {
			return err
		}
	}
	return nil
}

// ImportProgram makes an image with busybox of a program below coderd/. It is in the search path under the image's name.
func (c *Cluster) ImportProgram(name, source string) (reference string, err error) {
	reference = "prewarm.test/" + name + ":1"
	return reference, c.importProgram(image{reference: reference, source: source, path: "bin/" + name, shell: true})
}

func (c *Cluster) importProgram(i image) error {
	program, err := build(c.file("program"), packages+i.source)
	if err != nil {
		return err
	}
	files := []tar.Header{
		{Name: "bin/", Mode: 0o755, Typeflag: tar.TypeDir},
		{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir},
		{Name: i.path, Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg},
	}
	contents := map[string][]byte{i.path: program}
	if i.shell {
		busybox, err := exec.LookPath("busybox")
		if err != nil {
			return fmt.Errorf("make image: %w", err)
		}
		shell, err := os.ReadFile(busybox)
		if err != nil {
			return fmt.Errorf("make image: %w", err)
		}
		files = append(files, tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(shell)), Typeflag: tar.TypeReg})
		contents["bin/busybox"] = shell
		for _, name := range []string{"cat", "env", "false", "grep", "kill", "sh", "sleep", "tr", "true"} {
			files = append(files, tar.Header{Name: "bin/" + name, Linkname: "busybox", Mode: 0o777, Typeflag: tar.TypeSymlink})
		}
	}
	archive, err := pack(i.reference, i.user, []string{"/" + i.path}, files, contents)
	if err != nil {
		return err
	}
	return c.importImage(archive)
}

// ImportServer makes the image Server of a static prewarm binary.
func (c *Cluster) ImportServer(binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	archive, err := pack(Server, "65532:65532", []string{"/prewarm"}, []tar.Header{
		{Name: "data/", Mode: 0o755, Typeflag: tar.TypeDir, Uid: 65532, Gid: 65532},
		{Name: "prewarm", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg},
	}, map[string][]byte{"prewarm": program})
	if err != nil {
		return err
	}
	return c.importImage(archive)
}

// Tag gives an image that is there another name, such as docker.io/library/debian:12.
func (c *Cluster) Tag(image, name string) error {
	return c.ctr(nil, "tag", "--force", image, name)
}

func (c *Cluster) importImage(archive []byte) error {
	return c.ctr(archive, "import", "-")
}

func (c *Cluster) ctr(stdin []byte, args ...string) error {
	cmd := exec.Command("ctr", append([]string{"--address", c.file("containerd.sock"), "--namespace", "k8s.io", "images"}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr images %s: %w: %s", args[0], err, out)
	}
	return nil
}

func build(path, source string) ([]byte, error) {
	cmd := exec.Command("go", "build", "-o", path, "-ldflags", "-s -w", source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	return os.ReadFile(path)
}

// pack makes an image of one layer, as `docker save` writes it.
func pack(reference, user string, entrypoint []string, files []tar.Header, contents map[string][]byte) ([]byte, error) {
	layer, err := archived(files, contents)
	if err != nil {
		return nil, err
	}
	config, _ := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint, "User": user, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest, _ := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{reference}, "Layers": []string{"layer.tar"}}})
	all := map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest}
	var headers []tar.Header
	for _, name := range []string{"config.json", "layer.tar", "manifest.json"} {
		headers = append(headers, tar.Header{Name: name, Mode: 0o644, Size: int64(len(all[name])), Typeflag: tar.TypeReg})
	}
	return archived(headers, all)
}

func archived(files []tar.Header, contents map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range files {
		if err := w.WriteHeader(&files[i]); err != nil {
			return nil, fmt.Errorf("make image: %w", err)
		}
		if _, err := w.Write(contents[files[i].Name]); err != nil {
			return nil, fmt.Errorf("make image: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	return out.Bytes(), nil
}
