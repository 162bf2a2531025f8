package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// upload measures a large file on its way into a workspace, by `prewarm cp` and by a bare PUT, beside the same file by stock scp to an
// sshd on loopback. All write into one directory, and take turns.
func (b *bench) upload(ctx context.Context, g guest, name string) {
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		fmt.Fprintln(os.Stderr, "# uploads are left out: sshd is not there, scripts/sshd.sh installs it")
		return
	}
	dir := get(os.MkdirTemp(b.scratch, "upload"))
	defer os.RemoveAll(dir)
	size := sized(b, 1<<30, 256<<20)
	shared := get(os.MkdirTemp("", "prewarm-upload"))
	defer os.RemoveAll(shared)
	must(os.Chmod(shared, 0o777)) // the workspace may have a user of its own
	source, target := filepath.Join(dir, "source"), filepath.Join(shared, "target")
	command := func(args ...string) {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "PREWARM_URL="+g.server.address, "PREWARM_TOKEN="+g.token)
		if out, err := cmd.CombinedOutput(); err != nil {
			fail("%s: %w: %s", args[0], err, out)
		}
	}
	command("dd", "if=/dev/urandom", "of="+source, "bs=1M", "count="+strconv.Itoa(size>>20))
	scp, stop := b.scp(ctx, sshd, dir, command)
	defer stop()
	put := func() {
		f := get(os.Open(source))
		defer f.Close()
		url := g.server.address + "/api/v1/workspaces/" + name + "/files/content?path=" + target
		req := get(http.NewRequestWithContext(ctx, http.MethodPut, url, f))
		req.ContentLength = int64(size)
		req.Header.Set("Authorization", "Bearer "+g.token)
		req.Header.Set("Content-Type", "application/octet-stream")
		res := get(http.DefaultClient.Do(req))
		defer res.Body.Close()
		if res.StatusCode/100 != 2 {
			fail("upload: %s", res.Status)
		}
	}
	ways := []struct {
		name string
		do   func()
	}{
		{"scp", func() { scp(source, target) }},
		{"cp", func() { command(b.program(ctx, "cmd/prewarm"), "cp", source, name+":"+target) }},
		{"put", put},
	}
	rates := map[string][]float64{}
	for round := range b.rounds {
		for i := range ways {
			way := ways[(round+i)%len(ways)] // each has each place once: what was written before is still on its way to the disk
			began := time.Now()
			way.do()
			rates[way.name] = append(rates[way.name], float64(size>>20)/time.Since(began).Seconds())
			if is := get(os.Stat(target)); is.Size() != int64(size) {
				fail("%s wrote %d of %d bytes", way.name, is.Size(), size)
			}
			must(os.Remove(target))
		}
	}
	yard := median(rates["scp"])
	line("interactive.upload.scp", yard, "MiB/s", 0, "")
	line("interactive.upload.cp", median(rates["cp"]), "MiB/s", yard, "interactive.upload.scp")
	line("interactive.upload.put", median(rates["put"]), "MiB/s", yard, "interactive.upload.scp")
}

// scp is stock scp to an sshd of its own, as the user of the bench.
func (b *bench) scp(ctx context.Context, sshd, dir string, command func(...string)) (send func(from, to string), stop func()) {
	at := func(name string) string { return filepath.Join(dir, name) }
	if os.Geteuid() == 0 {
		must(os.MkdirAll("/run/sshd", 0o755)) // sshd wants it as root
	}
	for _, key := range []string{"key", "host"} {
		command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key))
	}
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(err)
	must(listener.Close())
	must(os.WriteFile(at("config"), fmt.Appendf(nil, "ListenAddress 127.0.0.1:%s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\n"+
		"StrictModes no\nUsePAM no\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n", port, at("host"), at("key.pub")), 0o600))
	server := exec.CommandContext(ctx, sshd, "-D", "-f", at("config"))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(server.Start())
	until(ctx, time.Minute, "sshd listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return func(from, to string) {
			command("scp", "-q", "-P", port, "-i", at("key"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
				"-o", "LogLevel=ERROR", "-o", "BatchMode=yes", from, "127.0.0.1:"+to)
		}, func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
}
