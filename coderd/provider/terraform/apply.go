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

// apply makes what it plans. What that creates is on record while it does so, beside what was unsure before.
func (p *Provider) apply(ctx context.Context, run *Run, workspaceID uuid.UUID, unsure []string, output io.Writer) error {
	creates, err := run.Plan(ctx, output)
	if err != nil {
		return err
	}
	if err := p.States.Applying(ctx, workspaceID, run.backend.Token, creates); err != nil {
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

func (s Stored) doubt() string {
	named, size := 0, 0
	for named < len(s.Unsure) && (named == 0 || size+len(s.Unsure[named]) < mostDoubt) {
		size += len(s.Unsure[named])
		named++
	}
	addresses := strings.Join(s.Unsure[:named], ", ")
	if more := len(s.Unsure) - named; more > 0 {
		addresses += fmt.Sprintf(" and %d more", more)
	}
	end := "Then end the workspace: prewarm workspace delete " + s.Name + " --force"
	if strings.HasPrefix(s.Name, provider.CheckPrefix) {
		end = "A check was making them, which is forgotten after a week"
	}
	return fmt.Sprintf("an apply was cut off, and these may exist though no state names them: %s. Look for them at the place and remove "+
		"them. %s", addresses, end)
}
