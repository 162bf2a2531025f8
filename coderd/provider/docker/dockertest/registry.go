package dockertest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Registry is a registry of images on loopback, as far as an engine needs one to pull. Every image of any name with the
// tag "1" is the guest's; there is no other tag.
type Registry struct {
	Host string // host:port, with which references begin
	// Pulls counts how often it was asked what the tag is.
	Pulls atomic.Int64
	// Hold, if not nil, is waited for before a manifest is given out.
	Hold chan struct{}

	// Close takes it away before its test ends.
	Close func()

	user, password string
	mu             sync.Mutex
	blobs          map[string][]byte // by digest
	manifest       []byte
	config         []byte
}

// NewRegistry starts one that wants credentials, if a user is given.
func NewRegistry(t testing.TB, user, password string) *Registry {
	t.Helper()
	program, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{user: user, password: password, blobs: map[string][]byte{}}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	_ = w.WriteHeader(&tar.Header{Name: "bin/", Mode: 0o755, Typeflag: tar.TypeDir})
	_ = w.WriteHeader(&tar.Header{Name: "bin/guest", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg})
	_, _ = w.Write(program)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r.config, _ = json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/bin/guest"}, "Cmd": []string{"serve"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{r.add(layer.Bytes())}},
	})
	const docker = "application/vnd.docker."
	r.manifest, _ = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": docker + "distribution.manifest.v2+json",
		"config": map[string]any{"mediaType": docker + "container.image.v1+json", "size": len(r.config), "digest": r.add(r.config)},
		"layers": []any{map[string]any{
			"mediaType": docker + "image.rootfs.diff.tar", "size": layer.Len(), "digest": r.add(layer.Bytes()),
		}},
	})
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(server.Close)
	r.Close = server.Close
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

func (r *Registry) add(blob []byte) string {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(blob))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[digest] = blob
	return digest
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	if user, password, _ := req.BasicAuth(); r.user != "" && (user != r.user || password != r.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"unauthorized"}]}`, http.StatusUnauthorized)
		return
	}
	switch {
	case req.URL.Path == "/v2/":
	case strings.HasSuffix(req.URL.Path, "/manifests/1") || strings.Contains(req.URL.Path, "/manifests/sha256:"):
		if r.Hold != nil {
			<-r.Hold
		}
		if strings.HasSuffix(req.URL.Path, "/1") { // an engine that has the content asks for nothing else
			r.Pulls.Add(1)
		}
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(r.manifest)))
		w.Header().Set("Content-Length", fmt.Sprint(len(r.manifest)))
		_, _ = w.Write(r.manifest)
	case strings.Contains(req.URL.Path, "/blobs/"):
		r.mu.Lock()
		blob, ok := r.blobs[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]]
		r.mu.Unlock()
		if !ok {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
		_, _ = w.Write(blob)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`))
	}
}
