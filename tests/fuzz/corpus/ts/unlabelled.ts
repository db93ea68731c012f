# comment
@CLASSLABEL false
@equallength true
@serieslength 2
@data
1,2
-3.,4e2
