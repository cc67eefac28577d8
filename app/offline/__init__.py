"""The built-in offline model: routes by sentence similarity, quotes knowledge, fills tool slots. No network, no key."""
