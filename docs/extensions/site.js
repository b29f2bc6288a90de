// Summaries of what a search found are fetched from the pages themselves, which browsers refuse to pages opened from a folder.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
