# aim = "outside"
# tries = "Feeds a configuration whose factory is any function."
import logging.config

settings = {
    "version": 1,
    "handlers": {"h": {"()": "os.mkdir", "path": "@OUTSIDE@/planted"}},
    "root": {"handlers": ["h"]},
}
try:
    logging.config.dictConfig(settings)
except (ValueError, TypeError, AttributeError) as error:
    print(error)
