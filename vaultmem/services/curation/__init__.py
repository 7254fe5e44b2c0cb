"""Curation: propose, review and apply changes that keep a vault small and true."""
