package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"cdr.dev/slog"
	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/instance"
)

type agentBinaryInput struct {
	OS   string `query:"os" default:"linux"`
	Arch string `query:"arch" default:"amd64"`
}

func (s *server) registerInstanceAgent() {
	registerForInstance(s, operation{
		id: "download-instance-agent", method: http.MethodGet, path: "/instance/agent", action: auth.ActReadInstance,
		endless: true, summary: "Download the agent for an operating system and architecture",
		description: "The binary that is this server's own where the platform is the same.",
	}, s.instanceAgent)
}

func (s *server) instanceAgent(ctx context.Context, _ instance.Instance, in *agentBinaryInput) (*huma.StreamResponse, error) {
	f, err := s.Instances.Binary(in.OS, in.Arch)
	if errors.Is(err, instance.ErrNoBinary) {
		return nil, auth.Refuse(auth.ErrInvalid, "%s", err)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer f.Close()
		hc.SetHeader("Content-Type", "application/octet-stream")
		hc.SetHeader("Content-Length", strconv.FormatInt(info.Size(), 10))
		if _, err := io.Copy(hc.BodyWriter(), f); err != nil {
			s.Log.Debug(ctx, "send agent", slog.Error(err))
		}
	}}, nil
}
