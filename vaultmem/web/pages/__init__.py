"""Pages: each collects values from the vault and renders a template."""
