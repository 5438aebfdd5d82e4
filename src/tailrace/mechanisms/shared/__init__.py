"""What several families of mechanisms use."""
