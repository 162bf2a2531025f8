package docker

import (
	"archive/tar"
	"context"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/program"
)

const (
	// AgentCommand is the subcommand of the prewarm binary that is the agent; the command to run under it follows a "--".
	AgentCommand = "agent"

	agentDir    = "/.prewarm"
	agentBinary = agentDir + "/prewarm"
	tokenFile   = agentDir + "/token"
	caFile      = agentDir + "/authorities.pem"
	claimDir    = agentDir + "/claim"
	stoppedFile = agentDir + "/stopped" // the start of the run that was stopped on purpose

	// machineHost is the name under which a container reaches the machine that it runs on.
	machineHost = "host.docker.internal"
)

// underAgent has the container's command run under the agent. What the image would have run must be said then.
func (p *Provider) underAgent(
	req provider.CreateRequest, s spec, image image.InspectResponse, config *container.Config, host *container.HostConfig,
) error {
	server, err := p.serverURL(req.Callback, s)
	if err != nil {
		return err
	}
	entrypoint, command := s.entrypoint, s.command
	if image.Config != nil && entrypoint == nil {
		entrypoint = image.Config.Entrypoint
		if command == nil {
			command = image.Config.Cmd
		}
	}
	config.Entrypoint, config.Cmd = []string{agentBinary, AgentCommand}, nil
	if whole := slices.Concat(entrypoint, command); len(whole) > 0 {
		config.Entrypoint = append(config.Entrypoint, "--")
		config.Cmd = whole
	}
	config.Env = append(config.Env, "PREWARM_AGENT_URL="+server.String(), "PREWARM_AGENT_TOKEN_FILE="+tokenFile,
		"PREWARM_AGENT_DIR="+claimDir)
	if len(req.Callback.CABundle) > 0 {
		config.Env = append(config.Env, "PREWARM_AGENT_CA_FILE="+caFile)
	}
	if server.Hostname() == machineHost {
		host.ExtraHosts = append(host.ExtraHosts, machineHost+":host-gateway")
	}
	return nil
}

// serverURL is how the container reaches the server.
func (p *Provider) serverURL(callback provider.Callback, s spec) (*url.URL, error) {
	shared := slices.Contains(s.networks, "host")
	if slices.Contains(s.networks, "none") {
		return nil, provider.Permanent(xerrors.New("the template has an agent, and its network is none: it could not report"))
	}
	u, err := callback.Server(p.config.CallbackHost)
	if err == nil && p.config.CallbackHost == "" && !shared && provider.Loopback(u.Hostname()) {
		u, err = callback.Server(machineHost)
	}
	return u, err
}

// handOver copies what the agent needs into a container that was not started. The token is in a file that the container's
// user alone may read, and nowhere else.
func (p *Provider) handOver(ctx context.Context, req provider.CreateRequest, s spec, id string) error {
	if req.Callback.Token == "" {
		return nil
	}
	is, err := p.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return xerrors.Errorf("hand token to agent: %w", p.mapped(ctx, err))
	}
	user := s.user
	if is.Container.Config != nil { // the image's, where the spec says none
		user = is.Container.Config.User
	}
	uid, gid, err := p.owner(ctx, id, user)
	if err != nil {
		return xerrors.Errorf("hand token to agent: %w", err)
	}
	files := []entry{
		{name: agentDir, directory: true, mode: 0o755},
		{name: claimDir, directory: true, mode: 0o700, uid: uid, gid: gid},
		text(entry{name: tokenFile, mode: 0o600, uid: uid, gid: gid}, req.Callback.Token+"\n"),
	}
	if len(req.Callback.CABundle) > 0 {
		files = append(files, text(entry{name: caFile, mode: 0o644}, string(req.Callback.CABundle)))
	}
	if err := p.copyProgram(ctx, id, files); err != nil {
		return xerrors.Errorf("copy agent: %w", err)
	}
	return nil
}

// entry is one file or directory that is copied into a container.
type entry struct {
	name      string
	directory bool
	mode      int64
	uid, gid  int
	content   io.Reader
	size      int64
}

func text(e entry, content string) entry {
	e.content, e.size = strings.NewReader(content), int64(len(content))
	return e
}

// copyProgram copies entries, and the prewarm binary, into a container.
func (p *Provider) copyProgram(ctx context.Context, id string, entries []entry) error {
	binary, err := program.Open(p.config.AgentBinary)
	if err != nil {
		return err
	}
	defer binary.Close()
	if err := binary.RunsOn(p.machine); err != nil {
		return err
	}
	return p.copyIn(ctx, id, append(entries, entry{name: agentBinary, mode: 0o755, content: binary, size: binary.Size}))
}

// copyIn copies entries into a container.
func (p *Provider) copyIn(ctx context.Context, id string, entries []entry) error {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(writeArchive(w, entries)) }()
	defer func() { _ = r.Close() }() // so that the writer ends if the engine does not read it all
	_, err := p.client.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: r})
	return p.mapped(ctx, err)
}

func writeArchive(to io.Writer, entries []entry) error {
	w := tar.NewWriter(to)
	for _, e := range entries {
		h := &tar.Header{Name: e.name[1:], Mode: e.mode, Uid: e.uid, Gid: e.gid, Size: e.size, Typeflag: tar.TypeReg}
		if e.directory {
			h.Name, h.Typeflag = h.Name+"/", tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if e.directory {
			continue
		}
		if _, err := io.Copy(w, e.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// owner is the number of a container's user and group: as written, or as its /etc/passwd has them.
func (p *Provider) owner(ctx context.Context, id, user string) (uid, gid int, err error) {
	name, group, _ := strings.Cut(user, ":")
	uid, uidErr := strconv.Atoi(name)
	gid, gidErr := strconv.Atoi(group)
	if user == "" || name == "root" {
		return 0, 0, nil
	}
	if uidErr == nil {
		if gidErr != nil {
			gid = 0
		}
		return uid, gid, nil
	}
	passwd, err := p.readFile(ctx, id, "/etc/passwd")
	if err != nil {
		return 0, 0, xerrors.Errorf("look up user %s: %w", name, err)
	}
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 4 || fields[0] != name {
			continue
		}
		uid, uidErr = strconv.Atoi(fields[2])
		if gidErr != nil {
			gid, gidErr = strconv.Atoi(fields[3])
		}
		if uidErr == nil && gidErr == nil {
			return uid, gid, nil
		}
	}
	return 0, 0, provider.Permanent(xerrors.Errorf("look up user %s: the image does not have it; give its number", name))
}

// readFile reads a small file of a container.
func (p *Provider) readFile(ctx context.Context, id, name string) (string, error) {
	const most = 1 << 20
	copied, err := p.client.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
	if cerrdefs.IsNotFound(err) {
		return "", provider.Permanent(xerrors.Errorf("the image has no %s; give the user's number", name))
	}
	if err != nil {
		return "", p.mapped(ctx, err)
	}
	defer copied.Content.Close()
	archive := tar.NewReader(copied.Content)
	for {
		h, err := archive.Next()
		if err != nil {
			return "", xerrors.Errorf("read %s: %w", name, err)
		}
		if path.Base(h.Name) == path.Base(name) && h.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(io.LimitReader(archive, most))
			return string(content), err
		}
	}
}
