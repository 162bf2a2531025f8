package chaos_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// bytesOf are the same for a seed, and not to be compressed.
func bytesOf(seed byte, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), size)
}

func sumOf(seed byte, size int64) string {
	h := sha256.New()
	_, _ = io.Copy(h, bytesOf(seed, size))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// meets calls do once, when so many bytes have been read.
type meets struct {
	io.Reader
	left int64
	do   func() error
}

func (m *meets) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.left -= int64(n); m.left <= 0 && m.do != nil {
		if failed := m.do(); failed != nil {
			return n, failed
		}
		m.do = nil
	}
	return n, err
}

// upload sends a file until it is there. Halfway through a try harm is done, if there is any left.
func (in *inside) upload(ctx context.Context, name, path string, seed byte, size int64, harm ...func() error) (tries int, err error) {
	err = insist(ctx, "upload", func() error {
		content := &meets{Reader: bytesOf(seed, size), left: size / 2}
		if tries < len(harm) {
			content.do = harm[tries]
		}
		tries++
		f, err := in.c.WriteFile(ctx, name, path, content, sdk.FileWrite{Size: size})
		if err == nil && f.Size != size {
			return fmt.Errorf("%d bytes instead of %d", f.Size, size)
		}
		return err
	})
	return tries, err
}

// download reads a file, and where it was cut the rest of it. After a quarter of the whole in each try harm is done, if there
// is any left.
func (in *inside) download(ctx context.Context, name, path string, size int64, harm ...func() error) (sum string, tries int, err error) {
	h, at, tag := sha256.New(), int64(0), ""
	err = insist(ctx, "download", func() error {
		var do func() error
		if tries < len(harm) {
			do = harm[tries]
		}
		tries++
		n, etag, err := in.part(ctx, name, path, at, tag, size/4, do, h)
		at, tag = at+n, etag
		return err
	})
	if err == nil && at != size {
		err = fmt.Errorf("%d bytes instead of %d", at, size)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), tries, err
}

func (in *inside) part(
	ctx context.Context, name, path string, from int64, tag string, after int64, do func() error, to hash.Hash,
) (n int64, etag string, err error) {
	u := in.c.URL.String() + "/api/v1/workspaces/" + name + "/files/content?path=" + url.QueryEscape(path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return 0, tag, err
	}
	req.Header.Set("Authorization", "Bearer "+in.c.Token)
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		req.Header.Set("If-Range", tag)
	}
	resp, err := in.c.HTTPClient.Do(req)
	if err != nil {
		return 0, tag, err
	}
	defer resp.Body.Close()
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
	}
	if resp.StatusCode != want {
		said, _ := io.ReadAll(resp.Body)
		return 0, tag, fmt.Errorf("status %d: %s", resp.StatusCode, said)
	}
	n, err = io.Copy(to, &meets{Reader: resp.Body, left: after, do: do})
	return n, resp.Header.Get("ETag"), err
}
