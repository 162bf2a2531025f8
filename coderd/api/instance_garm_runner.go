package api

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What GARM has below the URL of its metadata, for the scripts that install a runner.

// text is an answer that a script reads as it is.
type text struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func textOf(s string) *text { return &text{ContentType: "text/plain; charset=utf-8", Body: []byte(s)} }

type credentialsInput struct {
	File string `path:"file" enum:"runner,credentials,credentials_rsaparams" doc:"Its name, without the dot in front"`
}

type unitInput struct {
	User string `query:"runAsUser" default:"runner" doc:"Whose home has the runner, in actions-runner"`
}

func (s *server) registerInstanceGARM() {
	const same = " As GARM has it, for user data that was written for it."
	registerForInstance(s, operation{
		id: "get-instance-registration-token", method: http.MethodGet, path: "/instance/metadata/runner-registration-token",
		action: auth.ActReadInstance, summary: "Read a token by which the workspace's runner registers",
		description: "Plain text." + same + " It is read once, and instead of a configuration; the answers are those of " +
			"`runner-configuration`.",
	}, s.instanceRegistrationToken)
	registerForInstance(s, operation{
		id: "get-instance-credentials", method: http.MethodGet, path: "/instance/metadata/credentials/{file}",
		action: auth.ActReadInstance, summary: "Read a file of the runner's just-in-time configuration",
		description: "The first that is asked for registers the runner, all come from that configuration, and each is read once: " +
			"409 from then on. 404 where the forge makes none." + same,
	}, s.instanceCredentials)
	registerForInstance(s, operation{
		id: "get-instance-service-name", method: http.MethodGet, path: "/instance/metadata/system/service-name",
		action: auth.ActReadInstance, summary: "Read the name of the runner's service", description: "Plain text." + same,
	}, s.instanceServiceName)
	registerForInstance(s, operation{
		id: "get-instance-unit", method: http.MethodGet, path: "/instance/metadata/systemd/unit-file",
		action: auth.ActReadInstance, summary: "Read a unit of systemd that runs the runner", description: "Plain text." + same,
	}, s.instanceUnit)
	registerForInstance(s, operation{
		id: "get-instance-certificates", method: http.MethodGet, path: "/instance/metadata/system/cert-bundle",
		action: auth.ActReadInstance, summary: "Read the authorities to trust, each by itself",
		description: "Those of the server, and of a runner those of its forge: PEM in base64." + same,
	}, s.instanceCertificates)
	registerForInstance(s, operation{
		id: "get-instance-runner-metadata", method: http.MethodGet, path: "/instance/metadata/runner-metadata",
		action: auth.ActReadInstance, summary: "Read what the workspace's runner is called, and what it takes",
		description: "No secret is among it." + same,
	}, s.instanceRunnerMetadata)
}

func (s *server) instanceRegistrationToken(ctx context.Context, i instance.Instance, _ *none) (*text, error) {
	if s.Runners == nil {
		return nil, huma.Error404NotFound(runners.ErrNoRunner.Error())
	}
	token, err := s.Runners.RegistrationToken(ctx, i.WorkspaceID, i.Bearer.Incarnation)
	if err != nil {
		return nil, s.runnerProblem(ctx, err)
	}
	return textOf(token), nil
}

func (s *server) instanceCredentials(ctx context.Context, i instance.Instance, in *credentialsInput) (*text, error) {
	if s.Runners == nil {
		return nil, huma.Error404NotFound(runners.ErrNoRunner.Error())
	}
	file, err := s.Runners.File(ctx, i.WorkspaceID, i.Bearer.Incarnation, "."+in.File)
	if err != nil {
		return nil, s.runnerProblem(ctx, err)
	}
	return &text{ContentType: "application/octet-stream", Body: file}, nil
}

// place is where the workspace's runner belongs.
func (s *server) place(ctx context.Context, i instance.Instance) (p runners.Place, err error) {
	err = runners.ErrNoRunner
	if s.Runners != nil {
		p, err = s.Runners.Place(ctx, i.WorkspaceID, i.Bearer.Incarnation)
	}
	if err != nil {
		return p, s.runnerProblem(ctx, err)
	}
	return p, nil
}

// serviceName is what the runner's own installer would call it.
func serviceName(p runners.Place) string {
	return "actions.runner." + strings.ReplaceAll(p.Path, "/", "-") + "." + p.Name
}

func (s *server) instanceServiceName(ctx context.Context, i instance.Instance, _ *none) (*text, error) {
	p, err := s.place(ctx, i)
	if err != nil {
		return nil, err
	}
	return textOf(serviceName(p)), nil
}

// unixUser keeps what is asked for to its line of the unit.
var unixUser = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

func (s *server) instanceUnit(ctx context.Context, i instance.Instance, in *unitInput) (*text, error) {
	if !unixUser.MatchString(in.User) {
		return nil, auth.Refuse(auth.ErrInvalid, "runAsUser %q is no name of a user", in.User)
	}
	p, err := s.place(ctx, i)
	if err != nil {
		return nil, err
	}
	home := "/home/" + in.User + "/actions-runner"
	return textOf(fmt.Sprintf(`[Unit]
Description=Runner %s
Wants=network-online.target
After=network-online.target

[Service]
User=%s
WorkingDirectory=%s
ExecStart=%s/runsvc.sh
KillMode=process
KillSignal=SIGTERM
TimeoutStopSec=5min

[Install]
WantedBy=multi-user.target
`, serviceName(p), in.User, home, home)), nil
}

func (s *server) instanceCertificates(ctx context.Context, i instance.Instance, _ *none) (*body[sdk.CertificateBundle], error) {
	row, err := s.Instances.Metadata(ctx, i)
	if err != nil {
		return nil, err
	}
	bundle := sdk.CertificateBundle{RootCertificates: map[string][]byte{}}
	for _, pems := range [][]byte{s.Instances.CABundle, []byte(row.ForgeCaBundle)} {
		for block, rest := pem.Decode(pems); block != nil; block, rest = pem.Decode(rest) {
			name := fmt.Sprintf("prewarm-%d.crt", len(bundle.RootCertificates)+1)
			bundle.RootCertificates[name] = pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		}
	}
	return bodyOf(bundle), nil
}

func (s *server) instanceRunnerMetadata(ctx context.Context, i instance.Instance, _ *none) (*body[sdk.RunnerMetadata], error) {
	p, err := s.place(ctx, i)
	if err != nil {
		return nil, err
	}
	return bodyOf(sdk.RunnerMetadata{Name: p.Name, ForgeType: p.Kind, Labels: p.Labels, Group: p.Group, ServiceName: serviceName(p)}), nil
}
