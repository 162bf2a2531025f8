package agent

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	// heartbeatMost is the usual time between reports; a quarter of the time-out where that is shorter.
	heartbeatMost = 10 * time.Second
	// maxMessage is what the server takes, in bytes.
	maxMessage = 4096
)

func heartbeatEvery(timeoutS int) time.Duration {
	if timeoutS <= 0 {
		return heartbeatMost
	}
	return min(heartbeatMost, time.Duration(timeoutS)*time.Second/4)
}

// report tells the server the condition, at each change and as a heartbeat, until ctx ends.
func (a *agent) report(ctx context.Context) {
	var failed backoff
	info := a.systemInfo()
	wiped := uuid.Nil // the claim whose secrets the server knows to be here
	for {
		now, every := a.current()
		report := sdk.AgentReport{Status: now.status, Message: now.message, SystemInfo: info}
		if now.claim != uuid.Nil {
			report.ClaimID, report.SecretsWritten = &now.claim, now.secrets && now.claim != wiped
		}
		err := a.server.report(ctx, report)
		wait := every - every/5 + rand.N(2*every/5+1)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = failed.next()
			a.trouble(ctx, "report", failed, err)
			if sdk.StatusOf(err) == 0 {
				a.server.hangUp()
			}
		default:
			info, failed = nil, backoff{} // it is told once
			if report.SecretsWritten {
				wiped = now.claim
			}
		}
		if !pause(ctx, a.Clock, wait, a.changed, "report") {
			return
		}
	}
}

// metadata asks until it is answered; false if ctx ended first.
func (a *agent) metadata(ctx context.Context) (sdk.InstanceMetadata, bool) {
	var failed backoff
	for {
		m, err := a.server.metadata(ctx)
		if err == nil {
			return m, true
		}
		wait := failed.next()
		a.trouble(ctx, "read metadata", failed, err)
		if !pause(ctx, a.Clock, wait, nil, "metadata") {
			return m, false
		}
	}
}

// trouble logs a failed call: the first of a series for everybody, the others for who asks. A workspace that drains is refused
// for as long as its runner is at a job, and nothing is wrong with that.
func (a *agent) trouble(ctx context.Context, what string, failed backoff, err error) {
	if ctx.Err() != nil {
		return
	}
	log := a.Log.Warn
	if failed.failures > 1 {
		log = a.Log.Debug
	}
	log(ctx, "the server does not answer as it should; it is tried again", slog.F("call", what), slog.Error(err))
}

// clip makes a message one that the server takes; the end of it says most.
func clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	message = message[len(message)-maxMessage+len("…"):]
	for len(message) > 0 && message[0]&0xC0 == 0x80 { // not in the middle of a character
		message = message[1:]
	}
	return "…" + message
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
