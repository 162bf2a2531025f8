package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Ready asks the workspace's own condition once.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return provider.Readiness{}, err
	}
	switch f.State {
	case container.StateRunning:
	case container.StateExited, container.StateDead:
		return p.ended(ctx, f)
	default:
		return provider.Readiness{Detail: "the container is " + string(f.State)}, nil
	}
	var r readiness
	_ = json.Unmarshal([]byte(f.Labels[labelReadiness]), &r) // ours; one that was tagged by hand only has to run
	waitingFor := ""
	switch {
	case r.Healthy:
		waitingFor, err = p.unhealthy(ctx, f)
	case r.TCP != 0:
		waitingFor, err = p.closed(ctx, f, r.TCP)
	case len(r.Command) > 0:
		waitingFor, err = p.unready(ctx, f, r.Command)
	}
	return provider.Readiness{Ready: err == nil && waitingFor == "", Detail: waitingFor}, err
}

// ended says how a container came to its end.
func (p *Provider) ended(ctx context.Context, f found) (provider.Readiness, error) {
	is, err := p.client.ContainerInspect(ctx, f.ID, client.ContainerInspectOptions{})
	if err != nil {
		return provider.Readiness{}, p.mapped(ctx, err)
	}
	if p.stopped(ctx, f.ID, is.Container.State) {
		return provider.Readiness{Detail: "it is stopped"}, nil
	}
	detail := "the container has ended"
	if s := is.Container.State; s != nil {
		detail = fmt.Sprintf("its command ended with exit status %d", s.ExitCode)
		if s.OOMKilled {
			detail = "it was killed, since it used more memory than it may"
		}
		if s.Error != "" {
			detail += ": " + s.Error
		}
	}
	if lines := p.lastLines(ctx, f.ID); lines != "" {
		detail += "; its last output:\n" + lines
	}
	return provider.Readiness{Failed: true, Detail: detail}, nil
}

// lastLines are the end of what a container wrote, empty if that cannot be read.
func (p *Provider) lastLines(ctx context.Context, id string) string {
	const most = 2 << 10
	logs, err := p.client.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "10"})
	if err != nil {
		return ""
	}
	defer logs.Close()
	end := &provider.Tail{Limit: most}
	_, _ = stdcopy.StdCopy(end, end, logs)
	return strings.TrimRight(end.String(), "\n")
}

// unhealthy says what the engine's own check waits for.
func (p *Provider) unhealthy(ctx context.Context, f found) (string, error) {
	is, err := p.client.ContainerInspect(ctx, f.ID, client.ContainerInspectOptions{})
	if err != nil {
		return "", p.mapped(ctx, err)
	}
	if is.Container.State == nil || is.Container.State.Health == nil {
		return "waiting for a health check, which neither the image nor the spec has", nil
	}
	h := is.Container.State.Health
	if h.Status == container.Healthy {
		return "", nil
	}
	detail := "waiting for its health check, which says " + string(h.Status)
	if n := len(h.Log); n > 0 && h.Log[n-1] != nil && h.Log[n-1].ExitCode != 0 {
		detail += ": " + strings.TrimSpace(h.Log[n-1].Output)
	}
	return detail, nil
}

const dialTimeout = time.Second

// closed says whether a port does not take connections yet. The container's own address is asked where it is within
// reach. A published port is no more than a hint: what forwards it may take a connection before it knows, and then closes
// it at once.
func (p *Provider) closed(ctx context.Context, f found, port uint16) (string, error) {
	waiting := fmt.Sprintf("waiting for port %d to take connections", port)
	var direct []string
	if f.HostConfig.NetworkMode == "host" {
		direct = []string{"127.0.0.1"}
	} else if strings.HasPrefix(p.host, "unix:") {
		direct = f.ips()
	}
	for _, ip := range direct {
		conn, err := p.dial(ctx, net.JoinHostPort(ip, strconv.Itoa(int(port))))
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil:
			_ = conn.Close()
			return "", nil
		case errors.Is(err, syscall.ECONNREFUSED):
			return waiting, nil
		}
	}
	for _, published := range f.published() {
		if published.PrivatePort != port || published.Type != "tcp" {
			continue
		}
		conn, err := p.dial(ctx, hostPort(published))
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			return waiting, nil
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(p.clock.Now("docker", "dial").Add(dialTimeout / 5))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return "", nil
		}
		return waiting, nil
	}
	return waiting + ": it is neither published nor within reach", nil
}

func (p *Provider) dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}

// commandTimeout bounds one run of a readiness command.
const commandTimeout = 10 * time.Second

// unready runs the spec's command in the container. Exit status 0 is ready.
func (p *Provider) unready(ctx context.Context, f found, command []string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var out bytes.Buffer
	status, err := p.exec(bounded, f.ID, provider.ExecRequest{Command: command, Stdout: &out, Stderr: &out})
	text := bytes.TrimSpace(bytes.ToValidUTF8(out.Bytes()[:min(out.Len(), 500)], []byte("?")))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case bounded.Err() != nil:
		return fmt.Sprintf("waiting for %s, which did not end within %s", command[0], commandTimeout), nil
	case err != nil:
		return "", err
	case status != 0:
		return fmt.Sprintf("waiting for %s, which ended with exit status %d: %s", command[0], status, text), nil
	}
	return "", nil
}
