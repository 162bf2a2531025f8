package terraform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// appliedFor bounds writing down that an apply came to its end, also where its context ended.
const appliedFor = 10 * time.Second

// apply does what it plans, where allow, if there is one, lets it. What that creates is on record while it does so, beside what was
// unsure before.
func (p *Provider) apply(ctx context.Context, run *Run, workspaceID uuid.UUID, unsure []string, output io.Writer, allow func(Planned) error) error {
	planned, err := run.Plan(ctx, output)
	if err != nil {
		return err
	}
	if allow != nil {
		if err := allow(planned); err != nil {
			return err
		}
	}
	if err := p.States.Applying(ctx, workspaceID, run.backend.Token, planned.Creates); err != nil {
		return err
	}
	err = run.Apply(ctx, output)
	if _, cut := errors.AsType[*CutOffError](err); cut {
		return err
	}
	if err == nil {
		unsure = nil // the state has it: it was created again, which made no second one
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appliedFor)
	defer cancel()
	return errors.Join(err, p.States.Applied(ctx, workspaceID, run.backend.Token, unsure))
}

// doubt refuses what would hide, or make twice, what an apply that was cut off may have made. No retry changes it: a person has to look.
func doubt(is Stored) error { return provider.Permanent(errors.New(is.doubt())) }

// mostDoubt bounds the addresses in a message, in bytes.
const mostDoubt = 4 << 10

// named are addresses for a message, as far as they fit into it.
func named(all []string) string {
	n, size := 0, 0
	for n < len(all) && (n == 0 || size+len(all[n]) < mostDoubt) {
		size += len(all[n])
		n++
	}
	some := strings.Join(all[:n], ", ")
	if more := len(all) - n; more > 0 {
		some += fmt.Sprintf(" and %d more", more)
	}
	return some
}

func (s Stored) doubt() string {
	end := "Then end the workspace: prewarm workspace delete " + s.Name + " --force"
	if strings.HasPrefix(s.Name, provider.CheckPrefix) {
		end = "A check was making them, which is forgotten after a week"
	}
	return fmt.Sprintf("an apply was cut off, and these may exist though no state names them: %s. Look for them at the place and remove "+
		"them. %s", named(s.Unsure), end)
}
