package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

type (
	// PortRef names a TCP port in a workspace; huma fills what is embedded only where it is exported.
	PortRef struct {
		WorkspaceRef
		Port int `path:"port" minimum:"1" maximum:"65535" doc:"A TCP port in the workspace"`
	}
	connectInput struct {
		PortRef
		Upgrade string `header:"Upgrade" hidden:"true"`
	}
)

func (in PortRef) path(rest string) string { return "/ports/" + strconv.Itoa(in.Port) + rest }

func (in PortRef) details() map[string]any { return map[string]any{"port": in.Port} }

func (s *server) registerPorts() {
	register(s, operation{
		id: "list-ports", method: http.MethodGet, path: "/workspaces/{workspace}/ports",
		action: auth.ActUseWorkspace, tag: "ports", summary: "List the ports in a claimed workspace on which something listens",
		description: "Those that can be connected to: on a loopback address, or on any. Where a workspace shares its network with " +
			"the machine, as with the providers local and hosts, they are the machine's.",
	}, s.listPorts)
	register(s, operation{
		id: "connect-port", method: http.MethodGet, path: "/workspaces/{workspace}/ports/{port}/connect",
		action: auth.ActUseWorkspace, tag: "ports", endless: true,
		summary: "Connect to a port in a claimed workspace, over a WebSocket",
		description: "Binary messages are the bytes, cut anywhere. The text message `end` ends the sender's way, as a half-closed " +
			"connection does, and the other way goes on. A WebSocket that closes before both have ended was cut off, and " +
			"its reason says why; code 4001 is the end of the claim. The port is reached by the loopback addresses. 502 if nothing " +
			"listens there.",
	}, s.connectPort)
}

func (s *server) listPorts(ctx context.Context, who auth.Identity, in *WorkspaceRef) (*body[[]sdk.Port], error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	list, err := ask[[]sdk.Port](ctx, s, e, get("/ports", nil))
	if err != nil || s.PortDomain.name == "" {
		return list, err
	}
	for i, p := range list.Body {
		list.Body[i].URL = s.PortDomain.origin(door{p.Port, e.Name}) + "/"
	}
	return list, nil
}

func (s *server) connectPort(ctx context.Context, who auth.Identity, in *connectInput) (*huma.StreamResponse, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	return s.relay(ctx, e, in.Upgrade, in.path("/connect"), "port", in.details())
}
