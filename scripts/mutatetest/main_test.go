package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBatches(t *testing.T) {
	took := func(name string, d time.Duration) judge { return judge{Name: name, Took: d} }
	require.Equal(t, [][]string{{"B", "D"}, {"C"}, {"A"}}, batches([]judge{
		took("A", 20*time.Second), took("B", time.Second), took("C", 5*time.Second), took("D", 2*time.Second),
	}), "the quick ones first")
	require.Equal(t, [][]string{{"A"}}, batches([]judge{took("A", time.Minute)}))
}
