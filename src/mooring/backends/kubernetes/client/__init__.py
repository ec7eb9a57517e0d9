"""What a user's command does on a cluster: send jobs, look at them, end them."""
