// Package modules packs the directory of a module of Terraform as an archive, and reads archives. The command line packs, and names the
// archive in the file that it applies by its digest. The server stores it under that digest, and a run has its files.
//
// An archive is a tar of regular files, sorted by their paths. It has nothing of the machine where it was made: no owners, no times, and
// of modes only whether a file is executable. So an unchanged directory has the same digest everywhere.
package modules
