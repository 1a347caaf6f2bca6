# aim = "answer"
# tries = "Raises an exception whose class has no usable name."
class Meta(type):
    @property
    def __name__(cls):
        raise BaseException("no name")

    __module__ = __name__


class Nameless(Exception, metaclass=Meta):
    pass


raise Nameless
