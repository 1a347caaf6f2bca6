# aim = "secret"
# tries = "Has the import system fail on the file and quote its line."
import importlib.machinery

importlib.machinery.SourceFileLoader("secret", "@SECRET_FILE@").load_module()
