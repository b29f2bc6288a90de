"""The browser pages of the service: plain HTML, JavaScript modules and one style sheet, served as they are."""
