package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// User data that was written for GARM runs here as it is: it reports in GARM's words, sends JSON without saying so, and asks
// for what registers a runner below the URL of the metadata (instance_garm_runner.go).

// statusOf puts GARM's words for how an instance does into ours.
func statusOf(said sdk.AgentStatus) database.AgentStatus {
	switch said {
	case "installing", "pending":
		return database.AgentStatusStarting
	case "idle", "active":
		return database.AgentStatusReady
	case "failed":
		return database.AgentStatusUnhealthy
	default:
		return database.AgentStatus(said)
	}
}

func (s *server) registerInstanceSystem() {
	registerForInstance(s, operation{
		id: "report-instance-system", method: http.MethodPost, path: "/instance/system-info/", action: auth.ActReportInstance,
		summary:     "Say what system a workspace runs",
		description: "As user data that was written for GARM does. An agent says it with its reports.",
	}, s.reportInstanceSystem)
}

func (s *server) reportInstanceSystem(
	ctx context.Context, i instance.Instance, in *body[sdk.SystemInfo],
) (*body[sdk.AgentReceipt], error) {
	info, err := json.Marshal(in.Body)
	if err != nil {
		return nil, xerrors.Errorf("encode system info: %w", err)
	}
	token, err := s.Instances.Report(ctx, i, instance.Report{Status: i.Status, SystemInfo: info, ClaimID: i.SeenClaimID.UUID})
	if err != nil {
		return nil, xerrors.Errorf("report system info: %w", err)
	}
	return bodyOf(sdk.AgentReceipt{Token: token}), nil
}

// jsonByDefault takes what instances send as a form for what it is, and their paths with and without a slash at the end, as
// GARM does.
func jsonByDefault(next http.Handler) http.Handler {
	const system = prefix + "/instance/system-info"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := strings.TrimSuffix(r.URL.Path, "/"); path == system {
			r.URL.Path = system + "/"
		} else if strings.HasPrefix(path, prefix+"/instance/") {
			r.URL.Path = path
		}
		form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
		if form && strings.HasPrefix(r.URL.Path, prefix+"/instance/") {
			r.Header.Set("Content-Type", "application/json")
		}
		next.ServeHTTP(w, r)
	})
}
