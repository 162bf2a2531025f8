package explain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/prewarm-dev/prewarm/coderd/explain"
)

func TestAttained(t *testing.T) {
	t.Parallel()
	a := explain.Attained{Target: 0.9, Claims: 100, Hits: 90, Maximum: 8, AtMaximum: 10}
	assert.Empty(t, a.Why(), "at the target")
	assert.Empty(t, explain.Attained{Target: 0.9}.Why(), "nothing was claimed")
	a.Hits = 80
	assert.Equal(t, "20 claims missed: 10 at the maximum of 8 prebuilds", a.Why())
	a.InBursts, a.Bursts, a.Unready = 7, 1, 3
	assert.Equal(t, "20 claims missed: 10 at the maximum of 8 prebuilds, 7 in 1 burst that nothing announced, of more claims than prebuilds, "+
		"3 while prebuilds were not ready", a.Why())
	assert.Equal(t, "1 claim missed", explain.Attained{Target: 0.9, Claims: 1}.Why())
}
