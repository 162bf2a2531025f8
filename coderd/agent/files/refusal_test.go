package files

import (
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a test cannot have a file system say, as root least of all.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for errno, status := range map[syscall.Errno]int{
		syscall.ENOSPC: http.StatusInsufficientStorage, syscall.EDQUOT: http.StatusInsufficientStorage,
		syscall.EACCES: http.StatusForbidden, syscall.EPERM: http.StatusForbidden, syscall.EROFS: http.StatusForbidden,
		syscall.EBUSY: http.StatusConflict, syscall.ENOTEMPTY: http.StatusConflict, syscall.EINVAL: http.StatusUnprocessableEntity,
	} {
		got, detail := refusal(&fs.PathError{Op: "write", Path: "/a/b", Err: errno})
		require.Equal(t, status, got, errno)
		require.Equal(t, "/a/b: "+errno.Error(), detail)
	}
}
