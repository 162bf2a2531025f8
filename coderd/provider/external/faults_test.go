package external_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/external"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
)

// An unknown flavor answers 30, which must not be taken for a workspace that is not there.
func TestUnknownFlavorIsPermanent(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	req := s.request("flavorless")
	req.Spec = json.RawMessage(`{"image": "ubuntu", "flavor": "no-such-flavor"}`)
	_, err := s.open().Create(t.Context(), req)
	require.ErrorContains(t, err, "flavor no-such-flavor not found")
	assert.True(t, provider.IsPermanent(err))
	assert.NotErrorIs(t, err, provider.ErrNotFound)
}

func TestStatusOutsideTheProtocolIsNotReady(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.PendingStatus})
	p, req := s.open(), s.request("pending")
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, provider.StatusUnknown, i.Status)
	ready, err := p.Ready(t.Context(), refOf(req))
	require.NoError(t, err)
	assert.False(t, ready.Ready || ready.Failed, "%+v", ready)
	must(t, p.Delete, refOf(req))
	assert.Zero(t, s.files())
}

func TestErrorStatusHasTheFault(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.ErrorStatus})
	p, req := s.open(), s.request("broken")
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, provider.StatusError, i.Status)
	assert.Equal(t, "no capacity in zone 1", i.Fault)
	ready, err := p.Ready(t.Context(), refOf(req))
	require.NoError(t, err)
	assert.True(t, ready.Failed)
	assert.Contains(t, ready.Detail, "no capacity in zone 1")
}

// What a panic says is in the error, and its stacks are not.
func TestPanicIsARetryableError(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.Panics})
	_, err := s.open().Create(t.Context(), s.request("panics"))
	require.ErrorContains(t, err, "exit status 2: panic: assignment to entry in nil map")
	assert.NotContains(t, err.Error(), "goroutine")
	assert.False(t, provider.IsPermanent(err))
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.Blabs, Password: "hunter2hunter2"})
	file := filepath.Join(s.dir, "credentials")
	require.NoError(t, os.WriteFile(file, []byte("filed-away-value\n"), 0o600))
	s.config["environment"] = map[string]string{
		"OS_PASSWORD": "correct-horse", "HTTPS_PROXY": "http://me:battery-staple@proxy:3128", "REGION": "zone-1",
	}
	s.config["environment_from_files"] = map[string]string{"CLOUD_ACCESS": file}
	req := s.request("blabs")
	req.Callback.Token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	_, err := s.open().Create(t.Context(), req)
	require.ErrorContains(t, err, "cannot log in with [redacted]")
	for _, secret := range []string{
		"hunter2", "filed-away", "correct-horse", "battery-staple", "eyJhbGci", "c2lnbmF0dXJl",
	} {
		assert.NotContains(t, err.Error(), secret)
	}
	assert.Contains(t, err.Error(), "REGION=zone-1", "what is no secret is kept")
}

// Megabytes on both outputs of every call, and of a listing that is good.
func TestLargeOutput(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.Chatty})
	p, req := s.open(), s.request("chatty")
	_, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	list, err := p.List(t.Context(), s.installation)
	require.NoError(t, err)
	require.Len(t, list, 1)
	must(t, p.Delete, refOf(req))
}

func TestEndlessOutputIsAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.Floods})
	_, err := s.open().List(t.Context(), s.installation)
	require.ErrorContains(t, err, "more than 16 MiB")
}

func TestAnswerThatIsNotJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.NotJSON})
	_, err := s.open().List(t.Context(), s.installation)
	require.ErrorContains(t, err, "its answer of 14 bytes is not what the protocol says")
}

func TestRenamedInstanceIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.Renames})
	_, err := s.open().Create(t.Context(), s.request("renamed"))
	require.ErrorContains(t, err, `made "runner-1"`)
	assert.True(t, provider.IsPermanent(err))
}

// A create that never ends, ignores SIGTERM, and has a child with its output open: ended with its group, and the call
// returns within two seconds of that; also where the child is in a session of its own, which stays.
func TestHangingCreateIsEnded(t *testing.T) {
	t.Parallel()
	for _, fault := range []externaltest.Fault{externaltest.Hangs, externaltest.Escapes} {
		for _, by := range []string{"its time-out", "the caller"} {
			t.Run(string(fault)+" ended by "+by, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, externaltest.Config{Fault: fault})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if by == "its time-out" {
					s.config["timeouts"] = map[string]string{"create": "300ms"}
				}
				p := s.open()
				lingering := filepath.Join(s.dir, "cloud", "lingering")
				failed := make(chan error, 1)
				go func() {
					_, err := p.Create(ctx, s.request("hangs"))
					failed <- err
				}()
				started := func() bool {
					child, err := os.ReadFile(lingering)
					return err == nil && len(child) > 0 || len(failed) > 0
				}
				require.Eventually(t, started, deadline, 5*time.Millisecond)
				ended := time.Now()
				if by == "the caller" {
					cancel()
				}
				err := <-failed
				// The child would hold it up for an hour.
				assert.Less(t, time.Since(ended), 10*time.Second, "two seconds, and what a busy machine adds")
				if by == "the caller" {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.ErrorContains(t, err, "did not end within 300ms")
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				}
				if fault == externaltest.Escapes { // its parent may have been ended before it said which one it is
					escaped := slices.DeleteFunc(s.processes(), func(pid int) bool {
						args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
						return !strings.HasSuffix(string(args), "\x00linger\x00")
					})
					if child, err := os.ReadFile(lingering); err == nil && len(child) > 0 {
						require.Equal(t, string(child), strings.Trim(fmt.Sprint(escaped), "[]"))
					}
					for _, pid := range escaped {
						require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
					}
				}
			})
		}
	}
}

// A create that was killed leaves an instance that is listed as stopped. It is deleted by name, or made anew.
func TestHalfMadeInstance(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"v0.1.0", ""} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, externaltest.Config{Protocol: protocol, CreateMS: 3_600_000})
			p := s.open()
			halfMade := func(name string) (provider.CreateRequest, provider.Instance) {
				req := s.request(name)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				before := s.files()
				failed := make(chan error, 1)
				go func() {
					_, err := p.Create(ctx, req)
					failed <- err
				}()
				require.Eventually(t, func() bool { return s.files() > before }, deadline, time.Millisecond)
				for _, pid := range s.processes() { // as when the machine runs out of memory
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				require.ErrorContains(t, <-failed, "signal killed")
				list, err := p.List(t.Context(), s.installation)
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, provider.StatusStopped, list[0].Status)
				require.Equal(t, req.Tags, list[0].Tags)
				return req, list[0]
			}
			req, _ := halfMade("deleted")
			must(t, p.Delete, refOf(req))
			assert.Zero(t, s.files())

			req, left := halfMade("anew")
			c := externaltest.Config{Root: filepath.Join(s.dir, "cloud"), Protocol: protocol}
			require.NoError(t, c.Write(filepath.Join(s.dir, "config.json")))
			i, err := p.Create(t.Context(), req)
			require.NoError(t, err)
			assert.Equal(t, provider.StatusRunning, i.Status)
			assert.NotEqual(t, left.ProviderID, i.ProviderID)
			assert.Equal(t, 1, s.files())
		})
	}
}

// With credentials that have expired there is a provider, whose every call says why it fails.
func TestBrokenExecutable(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.Broken})
	p, req := s.open(), s.request("any")
	_, err := p.Create(t.Context(), req)
	require.ErrorContains(t, err, "the credentials have expired")
	assert.False(t, provider.IsPermanent(err))
	require.ErrorContains(t, p.Delete(t.Context(), refOf(req)), "the credentials have expired")
	_, err = p.Get(t.Context(), refOf(req))
	require.ErrorContains(t, err, "the credentials have expired")
	assert.NotErrorIs(t, err, provider.ErrNotFound)
	_, err = p.Ready(t.Context(), refOf(req))
	require.ErrorContains(t, err, "the credentials have expired")
	_, err = p.List(t.Context(), s.installation)
	require.ErrorContains(t, err, "the credentials have expired")
}

// An executable that vanishes under a provider, or never was one.
func TestExecutableThatDoesNotWork(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	p := s.open()
	require.NoError(t, os.Remove(filepath.Join(s.dir, "provider")))
	_, err := p.List(t.Context(), s.installation)
	require.ErrorContains(t, err, "no such file or directory")

	other := filepath.Join(s.dir, "other")
	s.config["executable"] = other
	const silent = "#!/bin/sh\nsleep 1000\n"
	for script, want := range map[string]string{
		"#!/bin/sh\necho 'unknown command' >&2; exit 64\n": "exit status 64: unknown command",
		silent:                     "it did not answer within 500ms",
		"#!/no/such/interpreter\n": "no such file or directory",
		"not a program":            "exec format error",
	} {
		programtest.Write(t, other, []byte(script), 0o700)
		s.config["timeouts"] = map[string]string{"probe": "5m"}
		if script == silent {
			s.config["timeouts"] = map[string]string{"probe": "500ms"}
		}
		_, err = external.New(t.Context(), s.options())
		require.ErrorContains(t, err, want, strings.TrimSpace(script))
	}
}
