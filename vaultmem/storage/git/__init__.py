"""Git repositories: read and write commits, refs, trees and remotes."""
