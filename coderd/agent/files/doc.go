// Package files serves the files of a workspace over HTTP to its user. It knows no server and no token: a caller that reaches its
// handler has all the rights of the agent, as with commands. So a path may lead anywhere, and is absolute or relative to the
// directory of the workspace.
//
// What is removed, moved or copied is what the path names, whatever is put in its place meanwhile: nothing is done through a
// symbolic link that appears below it. No body is held in memory.
package files
