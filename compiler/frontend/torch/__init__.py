"""Programs of torch.export."""
