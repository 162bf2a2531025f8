package terraform

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Servers that start remove what others have left, and nothing that one is just making.
func TestMakeDirectory_besideServersThatStart(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	made := make(chan struct{})
	var starting sync.WaitGroup
	for range 2 {
		starting.Go(func() {
			for {
				select {
				case <-made:
					return
				default:
					assert.NoError(t, sweep(root))
				}
			}
		})
	}
	for range 500 {
		dir, lock, err := makeDirectory(root)
		if !assert.NoError(t, err) {
			break
		}
		assert.DirExists(t, dir)
		assert.NoError(t, os.Remove(dir))
		assert.NoError(t, lock.Close())
	}
	close(made)
	starting.Wait()
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
}
